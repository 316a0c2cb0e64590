import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const PAGE = readFileSync(join(process.cwd(), 'docs/troubleshooting.md'), 'utf8');

/** What a person on call reads: from the name of the alert to its section, and no other. */
export function runbookOf(alert: string): string {
  const rows = PAGE.split('\n').filter((line) => line.startsWith('|') && line.includes(`\`${alert}\``));
  const anchors = rows.flatMap((row) => [...row.matchAll(/\]\(#([\w-]+)\)/g)].map(([, anchor]) => anchor as string));
  if (anchors.length === 0) throw new Error(`The runbooks have no row for ${alert}`);
  return anchors.map(section).join('\n');
}

/** @returns the last command as it stands there, without the word in front: `requeue --type customer.changed` */
export function commandIn(text: string, command: string): string {
  const found = [...text.matchAll(new RegExp(`npx nestjs-outbox (${command}\\b[^\`\\n]*)`, 'g'))].at(-1);
  if (found?.[1] === undefined) throw new Error(`No command ${command} in: ${text}`);
  return found[1].trim();
}

function section(anchor: string): string {
  const parts = PAGE.split(/^## /m);
  const found = parts.find((part) => slug(part.split('\n', 1)[0] as string) === anchor);
  if (found === undefined) throw new Error(`The runbooks have no section ${anchor}`);
  return found;
}

const slug = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\w\s-]/g, '')
    .replaceAll(' ', '-');
