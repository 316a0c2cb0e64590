declare module '@prisma/client/runtime/query_compiler_fast_bg.postgresql.js';
declare module '@prisma/client/runtime/query_compiler_fast_bg.postgresql.wasm-base64.js' {
  export const wasm: string;
}
