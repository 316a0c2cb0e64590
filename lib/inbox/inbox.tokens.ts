import { Inject } from '@nestjs/common';
import { DEFAULT_NAME } from '../outbox.tokens.js';
import { InboxService } from './inbox.service.js';

/** The token of an inbox: the class itself for the default one, a string for a named one. */
export function getInboxToken(name: string = DEFAULT_NAME): typeof InboxService | string {
  return name === DEFAULT_NAME ? InboxService : `Inbox(${name})`;
}

/** Injects an inbox by name: `@InjectInbox('reports') private readonly inbox: InboxService`. */
export function InjectInbox(name: string = DEFAULT_NAME): PropertyDecorator & ParameterDecorator {
  return Inject(getInboxToken(name));
}
