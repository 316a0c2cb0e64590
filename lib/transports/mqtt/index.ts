export { mqtt } from './mqtt.js';
export { MqttPublishError, type MqttTrouble } from './errors.js';
export type { MqttMessageOptions, MqttOptions, MqttUrl } from './options.js';
