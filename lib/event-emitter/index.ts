// For applications with @nestjs/event-emitter. Loads nothing of it.
export { OutboxEventEmitterModule } from './outbox-event-emitter.module.js';
