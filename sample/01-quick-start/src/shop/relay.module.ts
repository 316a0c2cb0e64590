import { Module } from '@nestjs/common';
import { settings } from './settings.js';
import { shared } from './shared.js';
import { Warehouse } from './warehouse.js';

const { kafka, rabbitmq } = settings();

/** A handler of events that go to a broker would be an error at start. */
@Module({ imports: shared(true), providers: (kafka ?? rabbitmq) ? [] : [Warehouse] })
export class RelayModule {}
