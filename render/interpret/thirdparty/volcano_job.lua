local common = require("common")

local counters = "pending running succeeded failed terminating unknown"

function GetComponents(obj)
  local components = {}
  for n, task in ipairs(obj.spec.tasks or {}) do
    local name = task.name
    if name == nil or name == "" then
      name = "task-" .. (n - 1)
    end
    table.insert(components, common.component(name, task.minAvailable or 1, task.template))
  end
  return components
end

function InterpretHealth(obj)
  return common.oneOf(common.field(obj, "status", "state", "phase"),
    "Pending Running Restarting Completing Completed Aborting Aborted Terminating Terminated")
end

function ReflectStatus(obj)
  return common.report(obj, counters .. " state minAvailable version retryCount taskStatusCount runningDuration conditions")
end

-- The state is that of the member that is worst off.
function AggregateStatus(obj, items)
  obj = common.aggregate(obj, items, {sums = counters, any = "version minAvailable"})
  local order = "Failed Aborted Aborting Terminated Terminating Restarting Pending Running Completing Completed"
  obj.status.state = common.field(common.worst(items, order, "state", "phase"), "status", "state") or obj.status.state
  return obj
end
