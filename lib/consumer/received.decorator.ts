import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { type BrokerContext, receivedMessage } from './received-message.js';

/**
 * A parameter of an `@EventPattern` handler that gets the {@link ReceivedMessage}: id, type, version, key, time, headers, payload and bytes.
 * `undefined` when no outbox sent the message.
 */
export const Received: () => ParameterDecorator = createParamDecorator((_: unknown, context: ExecutionContext) =>
  receivedMessage(context.switchToRpc().getContext<BrokerContext>()),
);
