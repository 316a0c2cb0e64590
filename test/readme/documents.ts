import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const ROOT = join(__dirname, '..', '..');

/** A fenced block of a document: ```language rest-of-the-info-string. */
export interface Block {
  /** `README.md:120`, where the block begins. */
  readonly place: string;
  readonly language: string;
  readonly info: string;
  readonly text: string;
  /** From a first line such as `// src/orders/order.entity.ts`. */
  readonly file: string | undefined;
}
export interface Document {
  /** Relative to the root, with slashes. */
  readonly path: string;
  readonly text: string;
  readonly blocks: readonly Block[];
}

/** What users read: the README, the guides, how to contribute, what changed. */
export function documents(): Document[] {
  const guides = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name.replaceAll('\\', '/')}`);
  return ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md', ...guides.sort()]
    .filter((path) => existsSync(join(ROOT, path)))
    .map((path) => {
      const text = readFileSync(join(ROOT, path), 'utf8');
      return { path, text, blocks: blocksOf(path, text) };
    });
}

export function blocksIn(language: string, info?: string): Block[] {
  return documents()
    .flatMap(({ blocks }) => blocks)
    .filter((block) => block.language === language && (info === undefined || block.info === info));
}

function blocksOf(path: string, text: string): Block[] {
  const blocks: Block[] = [];
  const lines = text.split('\n');
  for (let at = 0; at < lines.length; at++) {
    const [, language, info] = /^```(\w+) ?(.*)$/.exec(lines[at] as string) ?? [];
    if (language === undefined) continue;
    const end = lines.indexOf('```', at);
    if (end === -1) throw new Error(`${path}:${at + 1}: the block has no end`);
    const body = lines.slice(at + 1, end);
    const [, file] = /^\/\/ (src\/\S+\.ts)$/.exec(body[0] ?? '') ?? [];
    blocks.push({ place: `${path}:${at + 1}`, language, info: info ?? '', text: `${body.join('\n')}\n`, file });
    at = end;
  }
  return blocks;
}

/** npm adds README and LICENSE by itself. */
export function isInstalled(path: string): boolean {
  const { files } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { files: string[] };
  const isIn = (one: string): boolean => path === one || path.startsWith(`${one}/`);
  const left = files.filter((one) => one.startsWith('!')).map((one) => one.slice(1));
  return [...files, 'README.md', 'LICENSE'].some(isIn) && !left.some(isIn);
}
