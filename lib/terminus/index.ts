// Health of an outbox for @nestjs/terminus. Loads nothing of it.
export { OutboxHealthIndicator } from './outbox-health-indicator.js';
