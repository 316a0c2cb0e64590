import { Inject, Injectable } from '@nestjs/common';
import type { HealthIndicatorResult } from '@nestjs/terminus';
import { OutboxService } from '../enqueue/outbox.service.js';
import type { OutboxHealth } from '../observe/health.js';
import type { ReasonCode } from '../observe/reason-codes.js';
import { OutboxDispatcher } from '../relay/dispatcher.js';

/** What keeps `enqueue` from writing. A broker is none of it: messages wait in the tables. */
const NOT_READY: readonly ReasonCode[] = ['database_silent', 'database_read_only'];

/**
 * Answers for @nestjs/terminus: `health.check([() => outbox.isReady('outbox')])`. For a named outbox make it with
 * `inject: [getOutboxToken(name), getOutboxToken(name, OutboxDispatcher)]`.
 */
@Injectable()
export class OutboxHealthIndicator {
  constructor(
    /** @internal */ @Inject(OutboxService) readonly outbox: OutboxService,
    /** @internal */ @Inject(OutboxDispatcher) readonly dispatcher: OutboxDispatcher,
  ) {}

  /**
   * For a liveness or startup probe: `down` while this process should have a running relay, and has none though nobody stopped it.
   * Asks no database and no broker, as a restart brings neither back.
   */
  isAlive<Key extends string>(key: Key): HealthIndicatorResult<Key> {
    const { running } = this.dispatcher.status();
    const { deps, stops } = this.dispatcher;
    const isDead = deps.options.relay === true && !running && stops === 0;
    return resultOf(key, isDead ? 'down' : 'up', { running });
  }

  /** For a readiness probe: `down` while nothing can be enqueued, as the database does not answer or takes no writes. */
  async isReady<Key extends string>(key: Key): Promise<HealthIndicatorResult<Key>> {
    const { reasons } = await this.outbox.health();
    const problems = reasons.filter(({ code }) => NOT_READY.includes(code));
    return resultOf(key, problems.length === 0 ? 'up' : 'down', { reasons: problems });
  }

  /** For a page or an alert: `down` when nothing goes out. `outbox` says `degraded` where somebody should look. */
  async isHealthy<Key extends string>(key: Key): Promise<HealthIndicatorResult<Key>> {
    const { status, reasons, transports }: OutboxHealth = await this.outbox.health();
    const circuits = Object.fromEntries(Object.entries(transports).map(([name, { circuit }]) => [name, circuit]));
    return resultOf(key, status === 'down' ? 'down' : 'up', { outbox: status, reasons, circuits });
  }
}

function resultOf<Key extends string>(key: Key, status: 'up' | 'down', details: object): HealthIndicatorResult<Key> {
  return { [key]: { status, ...details } } as unknown as HealthIndicatorResult<Key>;
}
