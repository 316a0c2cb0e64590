// @tier all
import { SQSClient } from '@aws-sdk/client-sqs';
import { describeWith } from '../support/services.js';
import { configFor } from '../support/sqs.js';
import { describeSqsContract } from '../support/sqs-contract.js';

describeWith('sqs', 'sqs() keeps the transport contract', () => {
  describeSqsContract('sqs, a FIFO queue', '.fifo', (url) => configFor(url));
  describeSqsContract("sqs, over the application's client", '', (url) => new SQSClient(configFor(url) as object));
});
