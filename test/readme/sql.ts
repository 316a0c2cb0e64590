import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DataSource } from 'typeorm';
import type { DatabaseKind } from '../support/services.js';
import { blocksIn, ROOT, type Block } from './documents.js';

/** MySQL takes what is written for MariaDB. */
const written = (kind: DatabaseKind): string => (kind === 'postgres' ? kind : 'mariadb');

/** Blocks that users run as they are; those that give rights come with names of users. */
export function plainBlocks(kind: DatabaseKind): Block[] {
  return blocksOf(kind).filter((block) => !isGrant(block));
}
export function grantsTo(kind: DatabaseKind, user: string): Block[] {
  return blocksOf(kind).filter((block) => isGrant(block) && block.text.includes(` ${user};`));
}
function blocksOf(kind: DatabaseKind, order = ''): Block[] {
  const info = `${written(kind)}${order}`;
  return [...blocksIn('sql', info), ...paragraphs(kind).filter((block) => block.info === info)];
}
/** Of the file with the rights that the page of the schema names, a block for each. */
function paragraphs(kind: DatabaseKind): Block[] {
  const file = `ops/rights-${written(kind)}.sql`;
  const texts = readFileSync(join(ROOT, file), 'utf8').trim().split('\n\n');
  return texts.slice(1).map((text, at) => ({
    place: `${file}, paragraph ${at + 2}`,
    language: 'sql',
    info: `${written(kind)}${text.startsWith('-- With ordering') ? ' strict' : ''}`,
    text: `${text.replaceAll(/^--.*\n/gm, '')}\n`,
    file: undefined,
  }));
}
/** What a strict order asks for beside that: one block names several users. */
function strictGrantsTo(kind: DatabaseKind, user: string): Block[] {
  return blocksOf(kind, ' strict')
    .filter(isGrant)
    .map((block) => ({
      ...block,
      text: block.text.replaceAll(/^.*;\n/gm, (line) => (line.includes(` ${user};`) ? line : '')),
    }));
}
function isGrant({ text }: Block): boolean {
  return text.startsWith('grant ');
}

/** Statement by statement, as a migration tool would. */
export function statements({ text }: Block): string[] {
  return text
    .split(/;\n/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');
}

export async function runOn(dataSource: DataSource, blocks: readonly Block[]): Promise<void> {
  const runner = dataSource.createQueryRunner(); // one connection: blocks begin and commit
  try {
    for (const block of blocks) {
      for (const statement of statements(block)) {
        await runner.query(statement).catch((error: Error) => {
          throw new Error(`${block.place}: ${error.message}`);
        });
      }
    }
  } finally {
    await runner.release();
  }
}

/** A database user of its own, with exactly the rights that a document gives to `documented`. */
export async function createUser(
  admin: DataSource,
  kind: DatabaseKind,
  documented: string | readonly string[],
  strict = false,
): Promise<DatabaseUser> {
  const name = `outbox_${randomBytes(6).toString('hex')}`;
  const database = new URL((admin.options as { url: string }).url).pathname.slice(1);
  const who = kind === 'postgres' ? name : `'${name}'@'%'`;
  const [create, password] = kind === 'postgres' ? ['create role', 'login password'] : ['create user', 'identified by'];
  await admin.query(`${create} ${who} ${password} '${name}'`);
  const blocks = [documented].flat().flatMap((role) =>
    [...grantsTo(kind, role), ...(strict ? strictGrantsTo(kind, role) : [])].map((block) => ({
      ...block,
      text: block.text.replaceAll(new RegExp(`(?<= )${role}(?=[ ;])`, 'g'), who).replaceAll(' shop.', ` ${database}.`),
    })),
  );
  await runOn(admin, blocks);
  return {
    grants: blocks.length,
    url: withUser((admin.options as { url: string }).url, name),
    async drop() {
      if (kind === 'postgres') await admin.query(`drop owned by ${who} cascade`);
      await admin.query(kind === 'postgres' ? `drop role ${who}` : `drop user ${who}`);
    },
  };
}
export interface DatabaseUser {
  readonly grants: number;
  readonly url: string;
  drop(): Promise<void>;
}

function withUser(url: string, name: string): string {
  const other = new URL(url);
  other.username = name;
  other.password = name;
  return other.href;
}
