import { kafka } from './kafka.mjs';
import { mariadb } from './mariadb.mjs';
import { mqtt } from './mqtt.mjs';
import { mysql } from './mysql.mjs';
import { nats } from './nats.mjs';
import { postgres } from './postgres.mjs';
import { rabbitmq } from './rabbitmq.mjs';
import { redis } from './redis.mjs';
import { sqs } from './sqs.mjs';

/** What tests need, and `provide` finds or starts. */
export const SERVICES = [postgres, mariadb, mysql, rabbitmq, kafka, redis, mqtt, nats, sqs];
