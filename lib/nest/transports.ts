import type { InjectionToken, Type } from '@nestjs/common';
import type { ModuleRef } from '@nestjs/core';
import { misconfigured } from '../outbox.errors.js';
import type { TransportDefinition } from '../outbox.options.js';
import { copiesText } from './instances.js';
import type { OutboxTransport } from '../transports/transport.js';
import { show } from '../options/show.js';
import { isPlainFunction } from '../options/transport-option.js';

type Definitions = ReadonlyMap<string, TransportDefinition>;

/** Makes the transports of a relay: the first moment at which a broker client may be loaded. All or none. */
export async function createTransports(
  definitions: Definitions,
  moduleRef: ModuleRef,
): Promise<Map<string, OutboxTransport>> {
  const created = new Map<string, OutboxTransport>();
  try {
    for (const [name, definition] of definitions) created.set(name, await createTransport(name, definition, moduleRef));
  } catch (error) {
    await Promise.allSettled([...created.values()].map((transport) => transport.close?.()));
    throw error;
  }
  return created;
}

async function createTransport(
  name: string,
  definition: TransportDefinition,
  moduleRef: ModuleRef,
): Promise<OutboxTransport> {
  const dependencies: unknown[] = [];
  for (const token of definition.inject ?? []) dependencies.push(await resolve(name, token, moduleRef));
  const transport = await definition.create(...dependencies);
  if (typeof transport?.publish !== 'function') {
    misconfigured(`transports.${name}: gave ${show(transport)}, which has no publish().`);
  }
  if (transport.receipt === 'none' && definition.receipt !== 'none') {
    const hint = "If losses are acceptable, say so: { inject, useFactory, receipt: 'none' }.";
    const text = `transports.${name}: ${show(transport)} confirms nothing (receipt 'none').`;
    misconfigured(text, hint, 'UNCONFIRMED_TRANSPORT');
  }
  return transport;
}

/** Our own module first: it alone has the handlers of this outbox; then the application. A transport class that nobody provides is made. */
async function resolve(name: string, token: InjectionToken, moduleRef: ModuleRef): Promise<unknown> {
  for (const strict of [true, false]) {
    try {
      return moduleRef.get(token as Type, { strict });
    } catch {
      continue;
    }
  }
  if (typeof token === 'function' && typeof (token.prototype as OutboxTransport | undefined)?.publish === 'function') {
    return moduleRef.create(token as Type);
  }
  if (isPlainFunction(token)) {
    const call = (token as { name: string }).name === '' ? 'to call it' : `${(token as { name: string }).name}()`;
    misconfigured(
      `transports.${name}: is ${show(token)}, which is no transport, no class and no provider; did you mean ${call}?`,
    );
  }
  const what = typeof token === 'function' ? token.name : show(String(token));
  const hint = copiesText() ?? 'Provide it in a module that is imported somewhere (ClientsModule.register, …).';
  misconfigured(`transports.${name}: this application has no provider ${what}.`, hint);
}
