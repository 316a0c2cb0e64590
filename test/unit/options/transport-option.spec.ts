import type { ModuleRef } from '@nestjs/core';
import type { MessageOptions, PublishResult } from '../../../lib/index.js';
import { clientProxy } from '../../../lib/transports/nest-client/index.js';
import { inProcess } from '../../../lib/transports/in-process/in-process.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import { createTransports } from '../../../lib/nest/transports.js';
import { OutboxTransport, PUBLISHED } from '../../../lib/transports/transport.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import { toDefinitions } from '../../../lib/options/transport-option.js';

class Null extends OutboxTransport {
  override readonly receipt: 'broker' | 'none' = 'broker';
  async publish(batch: readonly unknown[]): Promise<PublishResult[]> {
    return batch.map(() => PUBLISHED);
  }
}
class Unconfirmed extends Null {
  override readonly receipt = 'none';
}

function problems(transports: unknown): string[] {
  const found: string[] = [];
  toDefinitions(transports, found);
  return found;
}

describe('transports', () => {
  const one = (transport: unknown) => toDefinitions({ t: transport }, []).get('t');

  it('takes a definition as it is', () => {
    const definition = { kind: 'x', receipt: 'none', create: () => new Null() };
    expect(one(definition)).toBe(definition);
  });

  it('takes an object', async () => {
    const transport = new Null();
    expect(await one(transport)?.create()).toBe(transport);
    expect(one(transport)).toMatchObject({ kind: 'Null', receipt: 'broker' });
  });

  it('takes a class or a token, and creates nothing', () => {
    expect(one(Null)).toMatchObject({ kind: 'Null', receipt: 'broker', inject: [Null] });
    expect(one('TOKEN')).toMatchObject({ inject: ['TOKEN'] });
    expect(one({ forwardRef: () => Null })).toMatchObject({ inject: [Null] });
  });

  it.each([
    [inProcess, 'did you mean inProcess()?'],
    [kafka, 'did you mean kafka({ … })?'],
    [rabbitmq, 'did you mean rabbitmq({ … })?'],
    [clientProxy, 'did you mean clientProxy({ … })?'],
  ])('notices that %p was not called', (transport, hint) => {
    expect(problems({ t: transport })).toEqual([
      `transports.t: is the function ${transport.name}, not what it returns; ${hint}`,
    ]);
  });

  it('names options of transports that do not exist', () => {
    expect(() => inProcess({ concurency: 5, zzz: 1 } as never)).toThrow(
      "inProcess(): concurency is no option (did you mean 'concurrency'?); zzz is no option (there are concurrency).",
    );
    expect(() => clientProxy({ client: 'T', patern: 'x', allowUnconfirmd: true } as never)).toThrow(
      "clientProxy(): patern is no option (did you mean 'pattern'?); allowUnconfirmd is no option (did you mean 'allowUnconfirmed'?).",
    );
  });

  it('N4: a client that is known by its token alone refuses message options that are no object', () => {
    const check = (options: MessageOptions) =>
      clientProxy({ client: 'ORDERS' }).limits?.check?.({
        ...{ topic: 't', key: null, type: 't', contentType: 'text/plain', payloadBytes: 1, headers: {} },
        options,
      });
    expect(check({ kafka: 'first' as never })).toBe('options.kafka must be an object, not a string');
    expect(check({ rabbitmq: null as never })).toBe('options.rabbitmq must be an object, not null');
    expect(check({ kafka: {}, rabbitmq: {}, own: 1 })).toBeUndefined();
  });

  it('takes a class for a class, whatever its name and its compiler', () => {
    class kafka extends Null {}
    expect(one(kafka)).toMatchObject({ inject: [kafka] });
    function inProcess(): void {}
    inProcess.prototype.publish = () => [];
    expect(one(inProcess)).toMatchObject({ inject: [inProcess] });
  });

  it('names a function of the application that was not called', async () => {
    const missing = {
      get: () => {
        throw new Error('no such provider');
      },
    } as unknown as ModuleRef;
    const created = (transport: unknown) => createTransports(toDefinitions({ t: transport }, []), missing);
    function ours(): Null {
      return new Null();
    }
    await expect(created(ours)).rejects.toMatchObject({
      code: 'INVALID_OPTIONS',
      message: expect.stringMatching(/^transports\.t: .*the function ours.*did you mean ours\(\)\?/),
    });
    await expect(created(() => new Null())).rejects.toThrow(/a function.*did you mean to call it\?/);
    await expect(created('ours')).rejects.toThrow(/no provider 'ours'/);
    await expect(created(class Ours {})).rejects.toThrow(/no provider/);
  });

  it('takes a factory', async () => {
    const definition = one({
      inject: ['A'],
      useFactory: (a: string) => ({ a }) as never,
      receipt: 'none',
      limits: { topicBytes: 3 },
    });
    expect(definition).toMatchObject({ receipt: 'none', inject: ['A'], limits: { topicBytes: 3 } });
    expect(await definition?.create('x')).toEqual({ a: 'x' });
  });

  it('refuses what confirms nothing unless somebody said so', () => {
    expect(problems({ t: new Unconfirmed() })[0]).toMatch(/confirms nothing/);
  });

  it.each([5, null, {}, [], { create: 1, kind: 'x' }, { useFactory: 1 }])('refuses %p', (transport) => {
    expect(problems({ t: transport })[0]).toMatch(/^transports\.t: is .*; must be a definition/);
  });

  it('refuses none, an array, bad names and bad receipts', () => {
    expect(problems({})).toEqual(['transports: is empty; must name at least one transport']);
    expect(problems([new Null()])[0]).toMatch(/^transports: is an array/);
    expect(problems({ 'a b': new Null() })[0]).toMatch(/a name must be/);
    expect(problems({ t: { useFactory: () => 1, receipt: 'maybe' } })[0]).toMatch(/receipt is 'maybe'/);
  });
});
