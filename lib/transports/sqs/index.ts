export { sqs } from './sqs.js';
export { SqsPublishError } from './errors.js';
export type { SqsClient, SqsClientConfig } from './client.js';
export type { SqsOptions, SqsQueueUrls } from './options.js';
