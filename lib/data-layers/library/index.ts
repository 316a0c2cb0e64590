/** `nestjs-outbox/data-layer`: what a data layer of your own is made of. */
export { dataLayerOf } from './layer.js';
export { mysql2Driver, pgDriver, type Driver, type Library } from './library.js';
