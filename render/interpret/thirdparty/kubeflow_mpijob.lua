local common = require("common")

function GetComponents(obj)
  local components = {}
  for role, spec in pairs(common.field(obj, "spec", "mpiReplicaSpecs") or {}) do
    local default = 1
    if role == "Worker" then
      default = 0
    end
    table.insert(components, common.component(string.lower(role), spec.replicas or default, spec.template))
  end
  return components
end

function InterpretHealth(obj)
  return common.notFailed(obj, 1)
end

function ReflectStatus(obj)
  return common.report(obj, "conditions replicaStatuses startTime completionTime lastReconcileTime")
end

function AggregateStatus(obj, items)
  return common.jobs(obj, items)
end
