/** What a fix of the doctor names, and what does the same in a shell. The doctor speaks to programs, too. */
const IN_A_SHELL: readonly (readonly [api: RegExp, command: string])[] = [
  [/OutboxAdmin\.failures\(/, 'dead'],
  [/OutboxAdmin\.find\(\{ state: \['dead', 'waiting'\]/, 'list --state dead --state waiting'],
  [/OutboxAdmin\.explain\(/, 'explain <id>'],
  [/outbox\.requeue\(/, 'requeue --type <type>'],
  [/outbox\.discard\(/, 'discard --type <type>'],
  [/outbox\.release\(/, 'release <key>'],
  [/OutboxAdmin\.resume\(/, 'resume <transport>'],
  [/outbox\.breakLeases\(/, 'break-leases --owner <owner>'],
  [/\bdiagnose\(/, 'doctor --free-bytes <bytes>'],
  [/outboxMigrations\(/, 'migrate upgrade'],
  [/outboxSql\(/, 'migrate print <database>'],
];

/** @param text of a finding, and its fix. @returns commands as they are typed, in the order of the table */
export function shellCommands(text: string): string[] {
  return IN_A_SHELL.filter(([api]) => api.test(text)).map(([, command]) => `npx nestjs-outbox ${command}`);
}
