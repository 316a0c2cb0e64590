import { Injectable } from '@nestjs/common';
import { OutboxService } from 'nestjs-outbox';
import type { EntityManager } from 'typeorm';
import { Account } from './account.entity.js';
import { AccountChanged, AccountClosed } from './account.events.js';

/** `outbox.transaction` begins a transaction that `enqueue` finds by itself. */
@Injectable()
export class AccountsService {
  constructor(private readonly outbox: OutboxService) {}

  async open(id: string, balance: number): Promise<void> {
    await this.outbox.transaction(async (manager) => {
      await manager.insert(Account, { id, balance });
      await this.tell(manager, [id]);
    });
  }

  /** Both accounts and both messages, or nothing at all: an account cannot go below zero. */
  async transfer(from: string, to: string, amount: number): Promise<void> {
    await this.outbox.transaction(async (manager) => {
      await manager.increment(Account, { id: to }, 'balance', amount);
      await manager.decrement(Account, { id: from }, 'balance', amount);
      await this.tell(manager, [from, to]);
    });
  }

  async close(id: string): Promise<void> {
    await this.outbox.transaction(async (manager) => {
      await manager.delete(Account, { id });
      await this.outbox.enqueue(new AccountClosed(id));
    });
  }

  /** An array is one INSERT. */
  private async tell(manager: EntityManager, ids: string[]): Promise<void> {
    const changed = await Promise.all(ids.map((id) => manager.findOneByOrFail(Account, { id })));
    await this.outbox.enqueue(changed.map(({ id, balance }) => new AccountChanged(id, balance, 'online')));
  }
}
