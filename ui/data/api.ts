// The shapes of the server's API, as its JSON has them. Times are milliseconds since the epoch,
// null is "not known".

/** What somebody who is let in may do: each also what stands before it. */
export type Role = "metrics" | "view" | "profile" | "record" | "trace";

/** The roles that each role includes. */
export const includes: Record<Role, readonly Role[]> = {
  metrics: ["metrics"],
  view: ["metrics", "view"],
  profile: ["metrics", "view", "profile"],
  record: ["metrics", "view", "record"],
  trace: ["metrics", "view", "profile", "record", "trace"],
};

/** A login of a browser. */
export interface Session {
  id: string;
  /** Name of the token; "": the server's own. */
  token: string;
  browser: string;
  from: string;
  made_ms: number;
  used_ms: number;
  ends_ms: number;
  current: boolean;
}

/** What is wrong with the recording or the server; the key stays the same while it lasts. */
export interface Problem {
  key: string;
  text: string;
}

export interface Health {
  version: string;
  /** What who looks at this page may do. */
  may: Role;
  host: string;
  kernel: string;
  cpus: number;
  now_ms: number;
  started_ms: number;
  /** Since when anything is recorded that is still kept; null before the first values. */
  recorded_ms: number | null;
  /** Share of one CPU that culprit itself used in the last minute. */
  cpu: number | null;
  /**
   * The same by its parts: first all datasets, last what is in no other part. Empty as long as it
   * is not known.
   */
  spent: { what: string; cpu: number }[] | null;
  rss_bytes: number | null;
  /** Whether the server reads an engine: the page shows its hosts. */
  hosts?: boolean;
  viewers: number;
  disk_bytes: number | null;
  disk_limit_bytes: number | null;
  /** Share of one CPU that the datasets may cost. */
  cpu_limit: number | null;
  trouble: string[] | null;
  /** The same with what each is about; of an older server it is missing. */
  problems?: Problem[] | null;
  late_ticks: number;
  refused_samples: number;
  /** Requests and live events that ended in a fault of culprit itself. */
  faults: number;
}

/** A profile that the server keeps for a while. */
export interface Kept {
  id: string;
  name: string;
  kind: "file" | "sample";
  at_ms: number;
  /** When it was sampled; of a file it is not known. */
  from_ms?: number;
  to_ms?: number;
  unit: string;
  amount: number;
  samples: number | null;
  cpu_seconds: number | null;
  nodes: number;
  functions: number;
  depth: number;
  notes: string[];
}

/**
 * Two profiles compared, by function: those that changed beyond chance first, among them those that
 * explain most.
 */
export interface Changes {
  normalised_per: string;
  normalisation: string;
  functions: {
    function: string;
    module?: string;
    self_before: number;
    self_after: number;
    total_before: number;
    total_after: number;
    explains_self: number;
    explains_total: number;
    sigma_self: number | null;
    sigma_total: number | null;
    confidence: number | null;
  }[];
  more: number;
}

export interface Field {
  name: string;
  type: string;
  unit: string;
  help: string;
  /** What one value counts another may count too. */
  overlaps?: boolean;
}

export interface Stat {
  id: string;
  /** The name in words: subsystem, thing (may be empty), quantity. */
  words?: string[];
  kind: "delta" | "level" | "dist";
  unit: string;
  rate_unit: string;
  fold: string;
  /** What can be done with the values: the server decides it by kind and fold. */
  may?: { sum: boolean; stack: boolean; rate: boolean; percentile: boolean };
  /** The label of a row that represents all rows. */
  folded?: string;
  sparse: boolean;
  /** Measured by BPF programs at each event. */
  traced?: boolean;
  help: string;
  fields: Field[] | null;
  /**
   * What the rows are parts of where they don't add up to it: a sentence of one row, and words for
   * what is in no row.
   */
  whole?: { sentence: string; rest: string };
  /** The text of the D program that measures it. */
  program?: string;
}

/** What stands out in a rectangle of a heat map; of api/rank. */
export interface Ranking {
  unit: string;
  /** Events in the rectangle, and all others of the time that was asked for. */
  inside: number;
  outside: number;
  start_ms: number;
  end_ms: number;
  /** Values with fewer events are not ranked. */
  least_events: number;
  fields: {
    field: string;
    values: { value: string; inside: number; outside: number; score: number }[];
    rare: number;
    more: number;
  }[];
  /** Fields that are not ranked; record: the query that records them, cpu: what it may cost. */
  missing: { field: string; why: string; record?: string; cpu?: number | null }[];
  notes: string[];
}

/** A statistic that differs between two times; of api/changed. */
export interface Difference {
  statistic: string;
  query: string;
  /** The innermost function of the stacks that are meant; "": all, or no stacks. */
  function: string;
  unit: string;
  before: number | null;
  after: number | null;
  deviations: number | null;
  /** 0 to 1: what the differences are ordered by. */
  score: number | null;
  explains: { field: string; value: string; share: number }[];
  /** Other statistics of the same things that changed too. */
  with: string[];
}

/** How two times differ; of api/changed. */
export interface Differences {
  before: { start_ms: number; end_ms: number };
  after: { start_ms: number; end_ms: number };
  compared: number;
  changes: Difference[];
  notes: string[];
}

/** What happened at a moment; of api/notes. */
export interface Note {
  at_ms: number;
  kind:
    | "note"
    | "deploy"
    | "culprit"
    | "script"
    | "dataset"
    | "clock"
    | "process"
    | "interface"
    | "memory"
    | "kernel";
  text: string;
  who: string;
  /** Of what was noted: to remove it. */
  id?: number;
}

/** A named worksheet; of api/worksheets. */
export interface Worksheet {
  id: number;
  name: string;
  /** What its address has of it, without a time: see parts/analytics/worksheets.ts. */
  state: string;
  /** 1 at first, one more with each change. */
  version: number;
  at_ms: number;
  who: string;
}

/** A question that follows from a row; of api/questions. */
export interface Question {
  text: string;
  query: string;
  /** Queries with the terms by which the query is not narrowed. */
  wider: string[];
  /** A profile of the samples of the query answers it. */
  functions?: boolean;
  recorded: boolean;
  traced?: boolean;
  /** What recording it may cost, as a share of one CPU. */
  cpu?: number | null;
}

/** What a statistic costs or may cost; of api/prices. */
export interface Price {
  stat: string;
  /** A query to begin with. */
  query: string;
  recorded: boolean;
  cpu: number | null;
}

/** A D program of the server, whose aggregations are statistics. */
export interface Script {
  id: number;
  name: string;
  text: string;
  /** Share of one CPU that it may take; 0 is no bound. */
  budget: number;
  maker: string;
  since_ms: number;
  state: "running" | "stopped" | "ended" | "suspended" | "failed";
  why: string;
  cpu: number | null;
  output: string;
  notes: string[] | null;
  loss: Loss[] | null;
  stats: Stat[];
}

/** What may be written at a place of a D program; of api/scripts/complete and probes. */
export interface Words {
  /** The bytes of the text that a word replaces. */
  from: number;
  to: number;
  words: { text: string; kind: string; help: string }[];
  more: number;
}

export interface Loss {
  reason: string;
  events: number;
}

export interface Dataset {
  id: number;
  sentence: string;
  kind: string;
  unit: string;
  step_ms: number;
  since_ms: number;
  state: "recording" | "suspended";
  maker: string;
  rows: number;
  samples_per_s: number | null;
  disk_bytes: number | null;
  memory_bytes: number | null;
  cpu: number | null;
  from_ms: number | null;
  to_ms: number | null;
  loss: Loss[] | null;
}

export interface Change {
  at_ms: number;
  who: string;
  what: string;
  dataset: number;
  sentence: string;
  from_ms?: number;
  to_ms?: number;
}

/** A diagnosis; diagnose.Report. Its times are ISO 8601. */
export interface Report {
  start: string;
  end: string;
  host: string;
  findings: Finding[] | null;
  /**
   * Findings of the last minutes that this diagnosis lacks and that the server has not withdrawn;
   * absent in reports that no server follows.
   */
  held?: Finding[] | null;
  checked: string[] | null;
  fine: { resource: string; because: string }[] | null;
  /**
   * Resources that no finding accuses and that their own numbers keep from being ruled out; absent
   * in reports of older versions.
   */
  doubtful?: { resource: string; because: string }[] | null;
  missing: Missing[] | null;
  notes: string[] | null;
}

export type Severity = "high" | "medium" | "low";

export interface Finding {
  id: string;
  rule: string;
  severity: Severity;
  confidence: number | null;
  culprit: {
    kind: string;
    name: string;
    pid?: number;
    netns?: string;
    interface?: string;
    local?: string;
    peer?: string;
  };
  claim: string;
  explains: number | null;
  /** Who takes the resource, and how it would be without them. */
  attribution?: { text: string; basis: string };
  /**
   * 0 to 1: the share of time that it takes from tasks, or of what is asked for; absent in reports
   * of older versions.
   */
  effect?: number | null;
  evidence: Evidence[] | null;
  symptoms: { id: string; rule: string; claim: string }[] | null;
  exonerated: string[] | null;
  against: string[] | null;
  verify: string;
  fix: { command: string; undo: string; risk: string } | null;
  /** What the recording knows of it from before; absent without a recording. */
  past?: Past | null;
}

/** What a recording knows of a finding; diagnose.Past. */
export interface Past {
  since: string;
  /** Nothing is known from before: it may be older. */
  at_least?: boolean;
  /** 0 to 1: the share of the diagnoses since then that had it. */
  share: number | null;
  seen: string;
  /** Enough diagnoses had it for a notice. */
  confirmed: boolean;
  returns: number;
  last_good: [string, string] | null;
  /** Of the last seven days: those on which this hour was recorded, and those that had it then. */
  days: number;
  days_found: number;
}

export interface Evidence {
  text: string;
  statistic: string;
  value: number | null;
  unit: string;
  over: [string, string];
  compared_with: number | null;
  compared_as?: string;
}

export interface Missing {
  rule: string;
  checks: string;
  statistic: string;
  why: string;
  /** The queries that must be recorded for this check; absent when recording does not help. */
  record?: string[];
}

/** A diagnosis and when it was made; of api/diagnosis and of the list in api/findings. */
export interface Dated {
  at_ms: number;
  report: Report;
}
