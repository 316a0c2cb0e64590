import { OutboxEvent } from 'nestjs-outbox';

/** One topic for everything that happens to an account; its key keeps it in one partition, in order. */
@OutboxEvent({
  type: 'account.changed',
  topic: 'accounts',
  key: (event) => event.account,
  headers: (event) => ({ 'x-branch': event.branch }),
})
export class AccountChanged {
  constructor(
    readonly account: string,
    readonly balance: number,
    readonly branch: string,
  ) {}
}

/** A record without a value: a compacted topic forgets the key. */
@OutboxEvent({ type: 'account.closed', topic: 'accounts', key: (event) => event.account, payload: () => null })
export class AccountClosed {
  constructor(readonly account: string) {}
}
