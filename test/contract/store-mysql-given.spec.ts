// @tier all
import { describeStoreContract } from '../../lib/testing/store-contract/contract.js';
import { GivenSettingsStores } from '../support/given-settings.js';
import { describeOnOwnMysqlFamily } from '../support/own-database.js';

describeOnOwnMysqlFamily([], 'a server that gives every session other settings', (kind, startServer) => {
  describeStoreContract('given settings', new GivenSettingsStores(kind, () => startServer()));
});
