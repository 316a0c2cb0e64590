declare module '@prisma/client/runtime/query_compiler_fast_bg.postgresql.js';
declare module '@prisma/client/runtime/query_compiler_fast_bg.postgresql.wasm-base64.js' {
  export const wasm: string;
}
declare module '@prisma/client/runtime/query_compiler_fast_bg.mysql.js';
declare module '@prisma/client/runtime/query_compiler_fast_bg.mysql.wasm-base64.js' {
  export const wasm: string;
}
