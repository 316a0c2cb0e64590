/** A relay: a real Nest application. Started, killed and tortured by `../fleet.ts`. */
import 'reflect-metadata';
import { readdirSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { NestFactory } from '@nestjs/core';
import { OutboxModule, OutboxService, type OutboxOptions, type OutboxTransport } from '../../../lib/index.js';
import { Part } from '../part.js';
import { clockSince, readSettings, tell, TRANSPORTS, type Order, type RelaySettings } from '../settings.js';
import { uidIn } from '../workload.js';
import { given, openLayer } from './layer.js';
import { outboxOptions } from './options.js';
import { Receipts } from './receipts.js';
import { shiftClock } from './shift-clock.js';
import { withoutFullScan } from './without-full-scan.js';

const SAMPLE_EVERY = 2_000;

const settings = readSettings<RelaySettings>();
const now = clockSince(settings.origin);
const part = new Part(settings.part, () => flushPublishes());

/** When the first and the last publish of a bucket began since the last flush: between the two it may have been frozen. */
const publishes = TRANSPORTS.map(() => new Map<number, { readonly first: number; readonly last: number }>());
const receipts = TRANSPORTS.map(() => new Receipts());
const indexOf = (name: string): number => TRANSPORTS.indexOf(name as (typeof TRANSPORTS)[number]);

function flushPublishes(): void {
  publishes.forEach((buckets, transport) => {
    const starts = [...buckets].flatMap(([bucket, { first, last }]) =>
      first === last ? [bucket, first] : [bucket, first, bucket, last],
    );
    if (starts.length > 0) part.add(['p', settings.run, transport, starts]);
    buckets.clear();
    const time = now();
    const since = receipts[transport]!.news(time);
    if (since !== undefined) part.add(['r', settings.run, transport, time, since]);
  });
}

function traced(transport: OutboxTransport, index: number): OutboxTransport {
  const publish = transport.publish.bind(transport);
  transport.publish = (batch, context) => {
    const time = now();
    const buckets = publishes[index]!;
    for (const { bucket } of batch) buckets.set(bucket, { first: buckets.get(bucket)?.first ?? time, last: time });
    return receipts[index]!.follow(time, publish, batch, context);
  };
  return transport;
}

function tracedOptions(): OutboxOptions {
  const options = outboxOptions(settings);
  const transports = Object.entries(options.transports).map(([name, definition]) => {
    const { create } = definition as { create: (...dependencies: unknown[]) => Promise<OutboxTransport> };
    return [name, { ...(definition as object), create: async () => traced(await create(), indexOf(name)) }];
  });
  return {
    ...options,
    transports: Object.fromEntries(transports) as OutboxOptions['transports'],
    deadLetter: ({ message, transport, error }) => {
      const uid = message.payload === null ? undefined : uidIn(message.payload);
      part.add(['d', settings.run, now(), indexOf(transport), uid ?? -1, error]);
      part.flush(); // before the outbox is told that it was told
    },
  };
}

function watch(outbox: OutboxService): void {
  outbox.events.on('published', ({ transport, ids }) => receipts[indexOf(transport)]?.written(ids));
  let owner: string | undefined;
  outbox.events.on('leasesAcquired', ({ runId }) => {
    if (runId === owner || runId === undefined) return;
    owner = runId;
    part.add(['o', settings.run, owner]);
    tell({ kind: 'owner', owner });
  });
}

function sample(): void {
  const delay = monitorEventLoopDelay({ resolution: 20 });
  delay.enable();
  setInterval(() => {
    const rss = Math.round(process.memoryUsage.rss() / 2 ** 20);
    const descriptors = readdirSync('/proc/self/fd').length;
    part.add(['m', settings.run, now(), rss, descriptors, Math.round(delay.max / 1e6)]);
    delay.reset();
  }, SAMPLE_EVERY).unref();
}

/** What a probe would see. One that hangs is asked no second time. */
function tellHealth(outbox: OutboxService): void {
  let asked = false;
  const ask = async (): Promise<void> => {
    const { status, reasons } = await outbox.health();
    const codes = reasons.map(({ code }) => code);
    part.add(['h', settings.run, now(), status, codes]);
  };
  setInterval(() => {
    if (asked) return;
    asked = true;
    void ask()
      .catch(() => undefined)
      .finally(() => (asked = false));
  }, SAMPLE_EVERY).unref();
}

function obey(order: Order): void {
  if (order.kind === 'clock') shiftClock(order.shift);
  else if (order.kind === 'block') {
    for (const until = performance.now() + order.ms; performance.now() < until;);
  }
}

async function main(): Promise<void> {
  if (settings.noScan) withoutFullScan();
  const layer = await openLayer(2);
  const application = await NestFactory.createApplicationContext(
    {
      module: class Relay {},
      imports: [...layer.imports, OutboxModule.forRoot({ ...tracedOptions(), ...given(layer) })],
    },
    { logger: ['warn', 'error'], abortOnError: false },
  );
  const outbox = application.get(OutboxService);
  watch(outbox);
  process.on('message', obey);
  process.once('SIGTERM', () => {
    const end = (): void => {
      part.close();
      process.exit(0);
    };
    application.close().then(end, end);
  });
  sample();
  tellHealth(outbox);
  const { user, system } = process.cpuUsage();
  part.add(['ready', settings.run, now(), Math.round((user + system) / 1_000)]);
  tell({ kind: 'ready' });
}

// Without its harness it must not live on.
process.once('disconnect', () => process.exit(0));
main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
