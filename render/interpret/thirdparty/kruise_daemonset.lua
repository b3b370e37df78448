local common = require("common")

local counters = "currentNumberScheduled numberMisscheduled desiredNumberScheduled numberReady updatedNumberScheduled numberAvailable numberUnavailable"

function InterpretHealth(obj)
  local updated = obj.status.updatedNumberScheduled or 0
  return common.observed(obj)
    and updated >= (obj.status.desiredNumberScheduled or 0)
    and (obj.status.numberAvailable or 0) >= updated
end

function ReflectStatus(obj)
  return common.report(obj, counters .. " daemonSetHash observedGeneration")
end

function AggregateStatus(obj, items)
  return common.aggregate(obj, items, {sums = counters, any = "daemonSetHash"})
end

function GetDependencies(obj)
  return common.podDependencies(obj, {obj.spec.template})
end
