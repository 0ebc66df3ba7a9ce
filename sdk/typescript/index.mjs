export { Broker, callerReferenceOf } from './broker.mjs';
export { BrokerError, FinalError, GrantError, LostError } from './errors.mjs';
export { ProviderTransport } from './transport.mjs';
