import assert from 'node:assert/strict';
import type { OutboxMessage } from '../../outbox-message.js';
import { counted } from '../../observe/plural.js';
import type { OutboxTransport, PublishResult } from '../../transports/transport.js';

/** What one `publish` did, as a relay would see it. */
export interface PublishOutcome {
  /** By index; a message without a result is a `transport` failure, as the contract says. */
  readonly results: readonly PublishResult[];
  /** Set when `publish` rejected. */
  readonly rejection: unknown;
  /** Milliseconds until it settled. */
  readonly took: number;
}

export interface ProbeOptions {
  timeout: number;
  /** Aborts on top of the deadline. */
  signal?: AbortSignal;
  onReport?: (index: number, result: PublishResult) => void;
}

/** Calls `publish` the way the relay does and checks what holds for every call: no throw, one result each, an end. */
export async function probePublish(
  transport: OutboxTransport,
  batch: readonly OutboxMessage[],
  options: ProbeOptions,
): Promise<PublishOutcome> {
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(new Error('publish deadline')), options.timeout);
  const signal = options.signal === undefined ? deadline.signal : AbortSignal.any([deadline.signal, options.signal]);
  const results: (PublishResult | undefined)[] = batch.map(() => undefined);
  const report = (index: number, result: PublishResult): void => {
    assert.ok(
      Number.isInteger(index) && index >= 0 && index < batch.length,
      `report(${index}) of ${counted(batch.length, 'message')}`,
    );
    checkResult(result);
    if (results[index] === undefined) {
      results[index] = result;
      options.onReport?.(index, result);
    }
  };
  const started = performance.now();
  let rejection: unknown;
  try {
    const promise = start(() => transport.publish(batch, { signal, timeout: options.timeout, report }));
    const returned = await settled(promise, options.timeout);
    returned?.forEach((result, index) => report(index, result));
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    rejection = error;
  } finally {
    clearTimeout(timer);
  }
  return {
    results: results.map((result) => result ?? missing(rejection)),
    rejection,
    took: performance.now() - started,
  };
}

/** Far beyond the deadline a publish that did not settle never will. */
export const GRACE = 20_000;

function start<T>(publish: () => Promise<T>): Promise<T> {
  let promise: Promise<T>;
  try {
    promise = publish();
  } catch (error) {
    assert.fail(`publish threw synchronously: ${String(error)}`);
  }
  assert.equal(typeof promise?.then, 'function', 'publish must return a promise');
  return promise;
}

async function settled<T>(promise: Promise<T>, timeout: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new assert.AssertionError({ message: `publish did not settle ${GRACE} ms after its deadline` });
    timer = setTimeout(() => reject(error), timeout + GRACE);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function missing(rejection: unknown): PublishResult {
  return { ok: false, blame: 'transport', error: rejection ?? new Error('no result') };
}

function checkResult(result: PublishResult): void {
  if (result.ok) return;
  assert.equal(result.ok, false, 'a result is ok or not');
  assert.ok(['message', 'transport', 'collateral'].includes(result.blame), `blame ${String(result.blame)}`);
  assert.ok(result.error !== undefined && result.error !== null, 'a failure says why');
  assert.ok(result.final !== true || result.blame === 'message', 'only a message failure can be final');
}
