/** kafkajs' own parts of a connection; checked before use, as no version promises them. */
interface Queue {
  readonly pending: readonly unknown[];
  scheduleCheckPendingRequests(): void;
}

/** Where nothing waits kafkajs looks all the same whether something may be sent, each millisecond; Node 24 warns of it. */
export function restWhenIdle(connection: object): void {
  const { requestQueue: queue } = connection as { readonly requestQueue?: Partial<Queue> };
  const schedule = queue?.scheduleCheckPendingRequests?.bind(queue);
  if (schedule !== undefined && Array.isArray(queue?.pending))
    queue.scheduleCheckPendingRequests = () => (queue as Queue).pending.length > 0 && schedule();
}
