/** Compiled, never run: each `@ts-expect-error` is a mistake that must not compile. */
import * as v from 'valibot';
import { validateSync } from 'class-validator';
import { z } from 'zod';
import { OutboxEvent, type OutboxMessage } from '../../lib/index.js';
import { upcast, type ReceivedMessage } from '../../lib/consumer/index.js';

const ofZod = z.object({ id: z.string(), at: z.date().transform(String) });
@OutboxEvent({ type: 'a', key: (e) => e.id, validate: ofZod, payload: (e) => ({ id: e.id }) })
export class ByZod {
  readonly id = '1';
}
@OutboxEvent({ type: 'a', validate: v.object({ id: v.string() }), key: (e) => e.id })
export class ByValibot {
  readonly id = '1';
}
@OutboxEvent({ type: 'a', validate: (e) => validateSync(e) })
export class ByClassValidator {
  readonly id = '1';
}
@OutboxEvent({
  type: 'a',
  version: 3,
  validate: (e) => {
    if (e.n < 0) throw new Error('negative');
  },
  upcast: { 1: (old: { m: number }) => ({ n: old.m }), 2: async (old: ByFunction) => old },
})
export class ByFunction {
  readonly n: number = 1;
}

// @ts-expect-error what is false refuses nothing
@OutboxEvent({ type: 'a', validate: (e) => e.n > 0 })
export class ByBoolean {
  readonly n: number = 1;
}
// @ts-expect-error nobody waits for it
@OutboxEvent({ type: 'a', validate: async (e) => void e })
export class BySomethingSlow {}
// @ts-expect-error a member that the class does not have
@OutboxEvent({ type: 'a', validate: (e) => void e.nope })
export class ByAnother {
  readonly n = 1;
}
// @ts-expect-error a class is no schema
@OutboxEvent({ type: 'a', validate: ByFunction })
export class ByClass {}
// @ts-expect-error versions are numbers
@OutboxEvent({ type: 'a', version: 2, upcast: { v1: (old: object) => old } })
export class ByName {}
// @ts-expect-error a step says what it takes
@OutboxEvent({ type: 'a', version: 2, upcast: { 1: (old) => ({ n: old.m }) } })
export class ByGuess {}

export async function received(message: ReceivedMessage, stored: OutboxMessage): Promise<void> {
  const event: ByFunction | null = await upcast(ByFunction, message);
  // @ts-expect-error another class
  const other: ByZod | null = await upcast(ByFunction, message);
  await upcast(ByFunction, { type: 'a', version: 1, payload: JSON.parse('{}') });
  await upcast(ByFunction, stored);
  void [event, other];
}
