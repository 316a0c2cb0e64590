export { redis } from './redis.js';
export type { RedisOptions } from './options.js';
