// @tier gate
import { describeRabbitMqFaults } from './faults.contract.js';

describeRabbitMqFaults('amqplib 2');
