// The consumer's side: an effect happens once for each message, in the consumer's own transaction.
export { InboxModule } from './inbox.module.js';
export { InboxService } from './inbox.service.js';
export { getInboxToken, InjectInbox } from './inbox.tokens.js';
export type { OnceOptions, OnceOutcome } from './once.js';
export type { InboxCounts } from './counts.js';
export type { InboxAge, InboxStats } from './remembered.js';
export type { ReceiveOptions, ReceiveOutcome } from './receive.js';
export { InboxCleaner } from './cleaner.js';
export { Idempotent, type IdempotentOptions } from './idempotent.decorator.js';
export type { InboxMessage } from './identity.js';
export type { InboxAsyncOptions, InboxExtras, InboxOptions } from './inbox.options.js';
export { inboxMigrations, inboxSql, type InboxTableOptions } from './tables.js';
