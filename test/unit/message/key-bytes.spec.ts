import { keyBytes, keyText, recordKey } from '../../../lib/message/key-bytes.js';
import { murmur2 } from '../../../lib/transports/kafka/partitioner.js';
import { kafkaRecord } from '../../../lib/transports/nest-client/record.js';
import { contractMessage } from '../../support/publish.js';

describe('keys that the database holds as bytes', () => {
  const texts = ['a', 'Größe', '🙂', '\ufffd', '\ufffdff', '\ufeffa', ' a ', ''];
  const noTexts = ['ff', 'fe', 'c3', 'c328', 'eda080', 'c080', 'f4908080', '61ff', 'ff'.repeat(255)];

  it.each(texts)('%j is itself', (text) => {
    expect(keyText(Buffer.from(text))).toBe(text);
    expect(keyBytes(text)).toEqual(Buffer.from(text));
    expect(recordKey(text)).toBe(text);
  });

  it.each(noTexts)('%s is no UTF-8, and is found again', (hex) => {
    const bytes = Buffer.from(hex, 'hex');
    expect(keyBytes(keyText(bytes))).toEqual(bytes);
    expect(recordKey(keyText(bytes))).toEqual(bytes);
  });

  it('different ones stay different', () => {
    const all = [...texts.map((text) => Buffer.from(text)), ...noTexts.map((hex) => Buffer.from(hex, 'hex'))];
    expect(new Set(all.map(keyText)).size).toBe(all.length);
  });

  it('a record for Kafka has the bytes, by which its partition is chosen; null stays null', () => {
    const record = (key: string | null) => (kafkaRecord(contractMessage({ topic: 't', key })) as { key: unknown }).key;
    expect(record(keyText(Buffer.of(0xff)))).toEqual(Buffer.of(0xff));
    expect(record('k')).toBe('k');
    expect(record(null)).toBeNull();
    expect(murmur2(Buffer.of(0xff))).not.toBe(murmur2(Buffer.of(0xfe)));
  });
});
