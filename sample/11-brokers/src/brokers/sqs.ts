import * as aws from '@aws-sdk/client-sqs';
import { sqs } from 'nestjs-outbox/sqs';
import { asking, type Broker } from '../broker.js';

/** A FIFO queue. ElasticMQ checks no credentials. */
export async function open(endpoint: string, prefix: string): Promise<Broker> {
  const credentials = { accessKeyId: 'sample', secretAccessKey: 'sample' };
  const client = new aws.SQSClient({ endpoint, region: 'elasticmq', credentials });
  const Attributes = { FifoQueue: 'true', VisibilityTimeout: '10' }; // what was not deleted comes again
  const made = await client.send(new aws.CreateQueueCommand({ QueueName: `${prefix}orders.fifo`, Attributes }));
  const queue = { QueueUrl: made.QueueUrl };
  let end = async (): Promise<void> => undefined;
  return {
    transport: sqs({ client, queuePrefix: prefix, queueSuffix: '.fifo' }),
    async consume(handle) {
      const asked = { ...queue, WaitTimeSeconds: 1, MaxNumberOfMessages: 10, MessageAttributeNames: ['All'] };
      end = asking(async () => {
        const { Messages = [] } = await client.send(new aws.ReceiveMessageCommand(asked));
        for (const { Body = '', MessageAttributes = {}, ReceiptHandle } of Messages) {
          await handle(MessageAttributes['id']?.StringValue ?? '', Body);
          await client.send(new aws.DeleteMessageCommand({ ...queue, ReceiptHandle }));
        }
      });
    },
    async close() {
      await end();
      await client.send(new aws.DeleteQueueCommand(queue));
      client.destroy();
    },
  };
}
