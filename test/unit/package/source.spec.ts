import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';

const LIB = join(__dirname, '..', '..', '..', 'lib');
/** A program of its own, which no entry point loads: it has arguments, an environment and an end. */
const PROGRAM = `cli${sep}`;
/** Code without its comments: they may speak of what the code does not do. */
const sources = readdirSync(LIB, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !file.startsWith(PROGRAM))
  .map((file) => ({
    file,
    code: readFileSync(join(LIB, file), 'utf8').replace(/\/\*[^]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, ''), // prettier-ignore
  }));

const NAMED_LOCK = /\b(get_lock|release_lock)\s*\(/i;
/** Its locks have the database in their name; they are held while tables are made, never at work. */
const MAY_LOCK = join('store', 'mysql', 'schema', 'lock.ts');
/** Of a random name, never waited for, and held while it is asked on which server a session is. */
const ASKING = join('data-layers', 'drivers', 'other-pools.ts');
const SESSION_LOCK = /pg_(try_)?advisory_lock\b/i;
/** One maintainer of partitions at a time: a session of its own has the lock, which is never waited for, and is closed behind the work. */
const maintainerOf = (store: string): string => join('store', store, 'partitions', 'partitions.ts');
const EXCEPT = new Map([
  [NAMED_LOCK, [ASKING, maintainerOf('mysql'), MAY_LOCK]],
  [SESSION_LOCK, [maintainerOf('postgres')]],
]);

/** What the library never does, wherever: each ended somebody's process, hid somebody's error or locked somebody out. */
const NEVER: readonly [what: string, pattern: RegExp][] = [
  // Signal 0 only asks whether a process is there.
  ['end the process of its host', /\bprocess\s*\.\s*(exit|abort|kill(?!\(pid, 0\))|reallyExit)\b/],
  // `signal`: a second one while it stops, where the application listens to it already.
  ['listen to errors of the whole process', /\bprocess\s*\.\s*(on|once|addListener)\((?!signal\b)/],
  ['read arguments or the environment, where passwords would have to stand', /\bprocess\s*\.\s*(argv|env)\b/],
  ['print past the logger', /\bconsole\s*\./],
  ['make code of text', /\beval\(|\bnew Function\(|\bFunction\(/],
  ['take locks that are one per server, not per database, but to make tables and partitions', NAMED_LOCK],
  ['keep a lock of a session over several statements, but to make partitions', SESSION_LOCK],
  [
    'measure a time with the session’s zone',
    /\b(unix_timestamp\((?!current_timestamp)|(curdate|curtime|localtime|sysdate)\()/i,
  ],
  ['block the event loop', /\b(Atomics\.wait|execSync|spawnSync|readFileSync)\b/],
];

describe('the library', () => {
  it('is read as a whole', () => {
    expect(sources.length).toBeGreaterThan(100);
    expect(sources.some(({ code }) => code.includes('for update skip locked'))).toBe(true);
  });

  it.each(NEVER)('does not %s', (_, pattern) => {
    const found = sources.filter(({ code }) => pattern.test(code)).map(({ file }) => file);
    expect(found).toEqual(EXCEPT.get(pattern) ?? []);
  });
});
