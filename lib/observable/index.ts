// The events of an outbox for those who observe with RxJS, or with node:diagnostics_channel.
export { fromOutbox } from './from-outbox.js';
export { OutboxChannels, type OutboxChannelMessage } from './outbox-channels.js';
