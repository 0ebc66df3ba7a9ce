/** What a broker has answered to something that it will not do. */
export class BrokerError extends Error {
  constructor({ code, message, data }) {
    super(message);
    this.name = 'BrokerError';
    this.code = code;
    this.data = data;
    this.reason = typeof data?.reason === 'string' ? data.reason : undefined;
    this.ruleId = typeof data?.ruleId === 'string' ? data.ruleId : undefined;
    this.retryAfterMs = typeof data?.retryAfterMs === 'number' ? data.retryAfterMs : undefined;
    this.problems = Array.isArray(data?.errors) ? data.errors : [];
  }
}

/** A grant is no permission to begin: it is "replayed" or "expired". */
export class GrantError extends Error {
  constructor(reason) {
    super(reason === 'replayed' ? 'the reservation was made before; its work may have been done' : 'the grant has expired; the work may not begin any more');
    this.name = 'GrantError';
    this.reason = reason;
  }
}

/** There is no connection, or it ended before the answer came. The broker may have done what it was asked for. */
export class LostError extends Error {
  constructor(message = 'no connection to the broker') {
    super(message);
    this.name = 'LostError';
  }
}

/** Only a person can mend it: a secret, a slot. */
export class FinalError extends Error {
  constructor(message) {
    super(message);
    this.name = 'FinalError';
  }
}
