export { clientProxy, type ClientProxyOptions } from './publish/transports/client-proxy.js';
export type { RecordOption as ClientProxyRecord } from './publish/transports/client-proxy-record.js';
