/** A message of JSON-RPC 2.0. */
type Message = { jsonrpc: '2.0' } & Record<string, unknown>;

/** Where a broker is and what is served; see {@link ProviderTransport}. */
export interface ProviderOptions {
  /** The broker's: ws or wss, host, and the path before /provider, if any. */
  url: string | URL;
  /** The place that the provider takes. */
  slot: string;
  /** What the broker knows the provider by. It goes out as X-Provider-Token and nowhere else. */
  secret?: string;
  /** Made on each connection before anything is served. Without one there are no caller references and no budgets. */
  declaration?: Declaration;
  /** Opens a WebSocket with headers. By default that of Node 22 and newer; the README shows the one for "ws". */
  connect?: (url: string, protocol: string, headers: Record<string, string>) => WebSocketLike;
  /**
   * How long is waited after a failure, doubled with each up to longestPauseMs; half of it is random. A
   * connection that has ended before longestPauseMs was over counts as failed. 200 and 15 000.
   */
  firstPauseMs?: number;
  longestPauseMs?: number;
  /** How often the broker is asked whether it is there. 15 000. */
  pulseMs?: number;
  /** How long withBudget tries to settle. 30 000. */
  settleWithinMs?: number;
  /** How far the clocks of broker and provider may be apart. It matters for brokers alone that do not say expiresInMs. */
  clockDifferenceMs?: number;
}

/** What a WebSocket has to have. */
export interface WebSocketLike {
  readonly readyState: number;
  send(text: string): void;
  close(): void;
  addEventListener(type: string, listener: (event: any) => void): void;
}

/**
 * A Transport of @modelcontextprotocol/sdk that dials into a broker, and dials again whenever the
 * connection ends. Requests under way are cancelled then: the broker has answered them.
 */
export class ProviderTransport {
  constructor(options: ProviderOptions);
  /** What the provider asks the broker. */
  readonly broker: Broker;
  onclose?: () => void;
  /** Hears of connections that end, among others. */
  onerror?: (error: Error) => void;
  onmessage?: (message: any) => void;
  /**
   * Resolves when the provider has its slot and its declaration has been accepted. A broker that
   * is not there is tried again. What only a person can mend rejects: {@link FinalError},
   * {@link BrokerError}.
   */
  start(): Promise<void>;
  send(message: Message | object): Promise<void>;
  close(): Promise<void>;
}

/** What a provider serves. It grants nothing. */
export interface Declaration {
  version: string;
  domain: string;
  namespace: { resource: string };
  capabilities: string[];
  resources?: (
    | { resource: string; resourcePath: string; limits?: Constraints }
    | { resourcePattern: string; where?: Record<string, string>; limits: Constraints }
  )[];
  protects?: string[];
  resultsRequired?: string[];
  budgetUnits?: string[];
}

/** What may be written to a resource. The provider applies it before it acts. */
export interface Constraints {
  minValue?: number;
  maxValue?: number;
  allowedValues?: (string | number | boolean | null)[];
  destinations?: string[];
}

/** Stands for whoever sent a request, while it is under way. */
export interface CallerReference {
  ref: string;
  correlationId: string;
  traceId?: string;
}

/** The reference of whoever sent a request, by the request's _meta; undefined if there is none. */
export function callerReferenceOf(meta: unknown): CallerReference | undefined;

export interface BudgetQuery {
  /** On whose behalf. A provider asks on its own for work that no request has caused, where the policy lets it. */
  principal: { type: 'caller-ref'; ref: string } | { type: 'provider' };
  capability: string;
  resource: string;
  resourcePath: string;
  unit: string;
  quantity: number;
  /** Tells one piece of work of a request from another: 1 to 128 of letters, digits and ._:- */
  idempotencyKey: string;
}

export interface Grant {
  reservationId: string;
  decisionId: string;
  quantity: number;
  /** Until when work may begin, in Unix milliseconds by the broker's clock. */
  expiresAt: number;
  /** The same as a duration, from before the question on. */
  expiresInMs?: number;
  /** The reservation was there before: its work may have been done. */
  replayed: boolean;
  effect?: 'allow-with-constraints';
  obligations?: { constraints: Constraints };
}

export interface Settlement {
  reservationId: string;
  used: number;
  result: 'success' | 'failure' | 'refused';
}

export interface AuthorizeQuery {
  principal: { type: 'caller-ref'; ref: string } | { type: 'provider' };
  checks: { capability: string; resource: string; resourcePath: string; attributes?: object }[];
  correlationId?: string;
}

export interface Decision {
  decisionId: string;
  effect: 'allow' | 'allow-with-constraints' | 'deny';
  /** True for "allow" alone. */
  allowed: boolean;
  reason: string;
  obligations?: { constraints: Constraints };
}

/** What a provider asks the broker. */
export class Broker {
  private constructor();
  /** Declares anew, now and on each later connection. */
  declare(declaration: Declaration): Promise<{ accepted: true; version: string; policyVersion: string }>;
  /** An answer to each check. It takes nothing from any limit. */
  authorize(query: AuthorizeQuery): Promise<Decision[]>;
  /** Says what came of a decision whose capability is among resultsRequired. Once: a second time is refused. */
  report(result: { decisionId: string; result: 'success' | 'failure' | 'refused'; correlationId?: string }): Promise<void>;
  /** Reserves all budgets that apply, or none. After a {@link LostError} the units may be lost. */
  reserveBudget(query: BudgetQuery): Promise<Grant>;
  /** Whether work may begin now on a grant that reserveBudget has returned. */
  mayBegin(grant: Grant): boolean;
  /** Reports what was used. Tries until there is an answer, through broken connections: the same twice is one. */
  settleBudget(settlement: Settlement, options?: { withinMs?: number }): Promise<void>;
  /**
   * Reserves, runs work once, and settles all units as used. Work does not run on a grant that is
   * replayed or has expired ({@link GrantError}). A settlement that fails after work that succeeded
   * rejects; if work fails, that is the error, whatever the settlement does.
   */
  withBudget<T>(query: BudgetQuery, work: (grant: Grant) => T | Promise<T>): Promise<T>;
}

/** What a broker has answered to something that it will not do. Decide by reason. */
export class BrokerError extends Error {
  readonly code: number;
  readonly reason?: string;
  readonly ruleId?: string;
  readonly retryAfterMs?: number;
  /** What is wrong with a declaration, all of it. */
  readonly problems: string[];
  readonly data?: unknown;
}

/** A grant is no permission to begin. */
export class GrantError extends Error {
  readonly reason: 'replayed' | 'expired';
}

/** There is no connection, or it ended before the answer came. */
export class LostError extends Error {}

/** Only a person can mend it: a secret, a slot. */
export class FinalError extends Error {}
