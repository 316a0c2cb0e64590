import type { OutboxHealth } from '../../lib/index.js';
import { STATUS } from '../../lib/cli/commands/status.js';
import { reportOf } from '../../lib/nest/report.js';
import { systemClock } from '../../lib/time/clock.js';
import { patient, type Harness } from './relay.js';

export interface Said {
  readonly status: OutboxHealth['status'];
  readonly exitCode: number;
  /** `code: sentence (for how long, whose)`, as a person reads them. */
  readonly lines: readonly string[];
  /** Relays that live, of the transport `default`. */
  readonly relays: number;
}

/** One run of `npx nestjs-outbox status`: a process without a relay, which knows nothing from before. */
export async function runStatus(harness: Harness): Promise<Said> {
  const { options, store, transportIds } = harness;
  const service = reportOf({
    store: patient(store),
    dispatcher: { status: () => ({ running: false, storeDownFor: null, transports: [] }) as never, relays: [] },
    options: { ...options, relay: false },
    transportIds,
    clock: systemClock,
  });
  const { exitCode, lines } = await printed(service);
  const status = (/^status: (\w+)$/.exec(lines[0] ?? '')?.[1] ?? '') as Said['status'];
  const row = lines.find((line) => line.startsWith('default')) ?? '';
  return {
    status,
    exitCode,
    lines: lines.slice(1, lines.indexOf('')).map((line) => line.trim()),
    relays: Number(row.trim().split(/ +/).at(-1)),
  };
}

/** What it prints of this service. */
export async function printed(service: object): Promise<{ exitCode: number; lines: string[] }> {
  const lines: string[] = [];
  const terminal = { out: (line: string) => lines.push(line), colors: false, width: Infinity };
  const outbox = { service, answer: (work: unknown) => work };
  const context = { terminal, json: false, open: async () => outbox } as never;
  return { exitCode: await STATUS.run(context, { args: [], options: {} }), lines };
}
