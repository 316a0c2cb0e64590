// For applications with @nestjs/cqrs. Loads nothing of it.
export { commitTo, type AggregateOfEvents } from './commit-to.js';
export { OutboxCqrsModule } from './outbox-cqrs.module.js';
export { OutboxEventPublisher } from './outbox-event-publisher.js';
