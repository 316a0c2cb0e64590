import { Buffer } from 'node:buffer';
import * as runtime from '@prisma/client/runtime/client';
import type { PrismaMariaDb } from '@prisma/adapter-mariadb';
import type { PrismaPg } from '@prisma/adapter-pg';

/** What `prisma generate` makes of `model ContractRow { id Int @id @@map("contract_row") }`, without its types. */
const configOf = (activeProvider: 'postgresql' | 'mysql') => ({
  previewFeatures: [],
  clientVersion: '7.10.1',
  engineVersion: 'd1b3f377ca835d73fd50954a5e22128b9ebdd6b8',
  activeProvider,
  inlineSchema: `generator client {\n  provider = "prisma-client"\n  output   = "../client"\n}\n\ndatasource db {\n  provider = "${activeProvider}"\n}\n\nmodel ContractRow {\n  id Int @id\n\n  @@map("contract_row")\n}\n`,
  runtimeDataModel: JSON.parse(
    '{"models":{"ContractRow":{"fields":[{"name":"id","kind":"scalar","type":"Int"}],"dbName":"contract_row","schema":null}},"enums":{},"types":{}}',
  ) as object,
  parameterizationSchema: {
    strings: (
      JSON.parse(
        '["where","ContractRow.findUnique","ContractRow.findUniqueOrThrow","orderBy","cursor","ContractRow.findFirst","ContractRow.findFirstOrThrow","ContractRow.findMany","data","ContractRow.createOne","ContractRow.createMany","ContractRow.createManyAndReturn","ContractRow.updateOne","ContractRow.updateMany","ContractRow.updateManyAndReturn","create","update","ContractRow.upsertOne","ContractRow.deleteOne","ContractRow.deleteMany","having","_count","_avg","_sum","_min","_max","ContractRow.groupBy","ContractRow.aggregate","AND","OR","NOT","id","equals","in","notIn","lt","lte","gt","gte","not","set","increment","decrement","multiply","divide"]',
      ) as string[]
    ).filter((name) => activeProvider === 'postgresql' || !name.endsWith('AndReturn')),
    graph: GRAPHS[activeProvider],
  },
  compilerWasm: {
    getRuntime: () => COMPILERS[activeProvider][0](),
    getQueryCompilerWasmModule: async () => {
      const { wasm } = await COMPILERS[activeProvider][1]();
      const { Module } = Reflect.get(globalThis, 'WebAssembly') as { Module: new (bytes: Uint8Array) => object };
      return new Module(Buffer.from(wasm, 'base64'));
    },
    importName: './query_compiler_fast_bg.js',
  },
});
const COMPILERS = {
  postgresql: [
    () => import('@prisma/client/runtime/query_compiler_fast_bg.postgresql.js'),
    () => import('@prisma/client/runtime/query_compiler_fast_bg.postgresql.wasm-base64.js'),
  ],
  mysql: [
    () => import('@prisma/client/runtime/query_compiler_fast_bg.mysql.js'),
    () => import('@prisma/client/runtime/query_compiler_fast_bg.mysql.wasm-base64.js'),
  ],
} as const;
const GRAPHS = {
  postgresql:
    'JgsQBBwAAB8AMB0AAAQAEB4AAB8AMB8CAAAAAQEAAAABACABAAAAAQAgBBwAAB8AMB0AAAQAEB4AAB8AMB8CACAAIQADAAAABAAgAwAABQAwBAAAAQAgAwAAAAQAIAMAAAUAMAQAAAEAIAMAAAAEACADAAAFADAEAAABACABHwIAAAABAQgAAAkAIAEfAgAAAAEBCAAACwAwAQgAAAsAMAEfAgAmACECAAAAAQAgCAAADgAgAR8CACYAIQIAAAAEACAIAAAQACACAAAABAAgCAAAEAAgAwAAAAEAIA8AAAkAIBAAAA4AIAEAAAABACABAAAABAAgBRUAACEAIBYAACIAIBcAACUAIBgAACQAIBkAACMAIAQcAAAaADAdAAAXABAeAAAaADAfAgAbACEDAAAABAAgAwAAFgAwFAAAFwAgAwAAAAQAIAMAAAUAMAQAAAEAIAQcAAAaADAdAAAXABAeAAAaADAfAgAbACENFQAAHQAgFgAAHgAgFwAAHQAgGAAAHQAgGQAAHQAgIAIAAAABIQIAAAAEIgIAAAAEIwIAAAABJAIAAAABJQIAAAABJgIAAAABJwIAHAAhDRUAAB0AIBYAAB4AIBcAAB0AIBgAAB0AIBkAAB0AICACAAAAASECAAAABCICAAAABCMCAAAAASQCAAAAASUCAAAAASYCAAAAAScCABwAIQggAgAAAAEhAgAAAAQiAgAAAAQjAgAAAAEkAgAAAAElAgAAAAEmAgAAAAEnAgAdACEIIAgAAAABIQgAAAAEIggAAAAEIwgAAAABJAgAAAABJQgAAAABJggAAAABJwgAHgAhBBwAAB8AMB0AAAQAEB4AAB8AMB8CACAAIQggAgAAAAEhAgAAAAQiAgAAAAQjAgAAAAEkAgAAAAElAgAAAAEmAgAAAAEnAgAdACEAAAAAAAUoAgAAAAEpAgAAAAEqAgAAAAErAgAAAAEsAgAAAAEAAAAABRUABhYABxcACBgACRkACgAAAAAABRUABhYABxcACBgACRkACgECAQIDAQUGAQYHAQcIAQkKAQoMAgsNAwwPAQ0RAg4SBBETARIUARMVAhoYBRsZCw',
  mysql:
    'JAkOBBoAAB0AMBsAAAQAEBwAAB0AMB0CAAAAAQEAAAABACABAAAAAQAgBBoAAB0AMBsAAAQAEBwAAB0AMB0CAB4AIQADAAAABAAgAwAABQAwBAAAAQAgAwAAAAQAIAMAAAUAMAQAAAEAIAMAAAAEACADAAAFADAEAAABACABHQIAAAABAQgAAAkAIAEdAgAAAAEBCAAACwAwAR0CACQAIQIAAAABACAIAAANACABHQIAJAAhAgAAAAQAIAgAAA8AIAMAAAABACANAAAJACAOAAANACABAAAAAQAgAQAAAAQAIAUTAAAfACAUAAAgACAVAAAjACAWAAAiACAXAAAhACAEGgAAGAAwGwAAFQAQHAAAGAAwHQIAGQAhAwAAAAQAIAMAABQAMBIAABUAIAMAAAAEACADAAAFADAEAAABACAEGgAAGAAwGwAAFQAQHAAAGAAwHQIAGQAhDRMAABsAIBQAABwAIBUAABsAIBYAABsAIBcAABsAIB4CAAAAAR8CAAAABCACAAAABCECAAAAASICAAAAASMCAAAAASQCAAAAASUCABoAIQ0TAAAbACAUAAAcACAVAAAbACAWAAAbACAXAAAbACAeAgAAAAEfAgAAAAQgAgAAAAQhAgAAAAEiAgAAAAEjAgAAAAEkAgAAAAElAgAaACEIHgIAAAABHwIAAAAEIAIAAAAEIQIAAAABIgIAAAABIwIAAAABJAIAAAABJQIAGwAhCB4IAAAAAR8IAAAABCAIAAAABCEIAAAAASIIAAAAASMIAAAAASQIAAAAASUIABwAIQQaAAAdADAbAAAEABAcAAAdADAdAgAeACEIHgIAAAABHwIAAAAEIAIAAAAEIQIAAAABIgIAAAABIwIAAAABJAIAAAABJQIAGwAhAAAAAAAFJgIAAAABJwIAAAABKAIAAAABKQIAAAABKgIAAAABAAAFEwAEFAAFFQAGFgAHFwAIAAAAAAAFEwAEFAAFFQAGFgAHFwAIAQIBAgMBBQYBBgcBBwgBCQoBCgwCCw4BDBACDxEBEBIBERMCGBYDGRcJ',
};

/** What the contract uses of a transaction. */
export interface Transaction {
  readonly contractRow: {
    create(row: { data: { id: number } }): Promise<unknown>;
    findMany(): Promise<{ id: number }[]>;
  };
  $queryRawUnsafe(statement: string): Promise<unknown>;
  $executeRawUnsafe(statement: string): Promise<unknown>;
}
export interface Client extends Transaction {
  $transaction<T>(work: (tx: Transaction) => Promise<T>, options?: object): Promise<T>;
  $disconnect(): Promise<void>;
}

const clientOf = (provider: 'postgresql' | 'mysql') =>
  runtime.getPrismaClient(configOf(provider) as never) as unknown as new (options: {
    adapter: PrismaPg | PrismaMariaDb;
    transactionOptions?: object;
  }) => Client;

export const PrismaClient = clientOf('postgresql');
export const MysqlPrismaClient = clientOf('mysql');
