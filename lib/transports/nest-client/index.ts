export { clientProxy, type ClientProxyOptions } from './client-proxy.js';
export type { RecordOption as ClientProxyRecord } from './record.js';
