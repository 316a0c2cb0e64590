import { describeRabbitMqContract } from '../support/rabbitmq-contract.js';

for (const pipelineKeys of [false, true]) describeRabbitMqContract(`pipelineKeys ${pipelineKeys}`, pipelineKeys);
