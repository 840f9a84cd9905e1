import type { AgentStatistics } from "../ports/statistics.js";
import type { AgentServices } from "../run/context/agent-services.js";
import { countHeldLeases } from "../sessions/lease.js";

export function collectStatistics({ budget, channels }: AgentServices): AgentStatistics {
  return { ...budget.limiter.counts, ...channels.liveSessions().counts, leases: countHeldLeases() };
}
