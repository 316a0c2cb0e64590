// @tier gate
import { Injectable } from '@nestjs/common';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { inProcess, OutboxDispatcher, OutboxMessage, OutboxModule, OutboxService } from 'nestjs-outbox';
import { OutboxEventEmitterModule } from 'nestjs-outbox/event-emitter';
import { describeWith } from '../../support/services.js';
import { build, failure, OrderPlaced, quiet, typeOrm, until, useApplications } from '../support/app.js';

describeWith('postgres', '@OnEvent methods', () => {
  const { applications, database } = useApplications('postgres', 'test');
  const modules = (transports = { default: inProcess() }) => [
    typeOrm(database),
    OutboxModule.forRoot(quiet({ relay: 'manual', transports, retry: { initial: 1, max: 1 } })),
    EventEmitterModule.forRoot(),
    OutboxEventEmitterModule,
  ];

  it('get messages, each until it returns, and what is emitted as before', async () => {
    const calls: unknown[] = [];
    @Injectable()
    class Mail {
      fails = 1;
      @OnEvent('order.placed') // with suppressErrors, which is the default
      async send(event: OrderPlaced, message?: OutboxMessage): Promise<void> {
        calls.push(['mail', event, message instanceof OutboxMessage]);
        if (message !== undefined && this.fails-- > 0) throw new Error('smtp down');
      }
    }
    @Injectable()
    class Audit {
      @OnEvent('order.placed')
      @OnEvent('user.seen')
      keep(event: object): void {
        calls.push(['audit', event]);
      }
    }
    const app = await applications.start(build(modules(), [Mail, Audit]));
    app.get(EventEmitter2).emit('user.seen', {});
    await app.get(EventEmitter2).emitAsync('order.placed', {});
    expect(calls).toEqual([
      ['audit', {}],
      ['mail', {}, false],
      ['audit', {}],
    ]);
    calls.length = 0;
    const retried = app.get(OutboxService).events.once('retried');
    await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
    await until(async () => (await app.get(OutboxDispatcher).runOnce()).published === 1);
    expect((await retried).error).toMatch(/Failed: Mail\.send at .*smtp down/);
    expect(calls).toHaveLength(3);
    expect(calls).toContainEqual(['audit', new OrderPlaced('1')]);
    expect(calls).toContainEqual(['mail', new OrderPlaced('1'), true]);
    expect((calls[0] as unknown[])[1]).toBeInstanceOf(OrderPlaced);
  });

  it('end the start where they would not be called; of a pattern a warning tells', async () => {
    @Injectable()
    class Mail {
      @OnEvent('order.placed')
      send(): void {}
    }
    const elsewhere = modules(quiet().transports as never);
    expect(await failure(build(elsewhere, [Mail]))).toMatchObject({ code: 'HANDLER_NOT_ROUTED' });
    @Injectable()
    class Audit {
      @OnEvent('order.*')
      all(): void {}
      @OnEvent(['order', 'placed'])
      parts(): void {}
    }
    const warned: unknown[] = [];
    const nothing = (): void => {};
    const logger = { log: nothing, error: nothing, warn: (text: unknown) => void warned.push(text) };
    await applications.start(build(modules(), [Audit]).setLogger(logger));
    expect(warned).toEqual([
      expect.stringContaining(`Audit.all listens to a pattern, 'order.*'`),
      expect.stringContaining(`Audit.parts listens to a pattern, 'order,placed'`),
    ]);
  });
});
