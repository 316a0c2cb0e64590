import { createTestDatabase } from '../../test/support/databases.js';
import { describeWith } from '../../test/support/services.js';
import { SampleRun } from '../run-sample.js';

describeWith(['postgres'], 'sample 10', () => {
  it('reads each event on both sides by the id of its schema, and those of an older one as the newest has them', async () => {
    const database = await createTestDatabase('postgres');
    const output = await new SampleRun(['10-avro-protobuf'], { DATABASE_URL: database.url }).finish(170_000);
    await database.drop();
    expect(output).toMatch(/refused: Message 'order.placed': the header schema-id is set by the serializer alone\./);
    expect(output).toMatch(
      /schema 101 {2}\d+ bytes, as JSON \d+ {2}\{"orderId":"order-1","total":9.5,"currency":"EUR"\}/,
    );
    expect(output).toMatch(/schema 201 {2}\d+ bytes, as JSON \d+ {2}\{"stops":\[\],"orderId":"order-1","grams":300\}/);
    expect(output).toMatch(/OK: both sides have 4 events, two of them of an older schema\n+exit 0$/);
  });
});
