local common = require("common")

function InterpretHealth(obj)
  local ready = common.field(obj, "status", "ready")
  if ready ~= nil then
    return ready
  end
  return common.readyBecause(obj, "Succeeded")
end

function ReflectStatus(obj)
  return common.report(obj, "ready conditions autogen rulecount validatingadmissionpolicy")
end

-- A policy is ready where it is ready everywhere.
function AggregateStatus(obj, items)
  obj = common.aggregate(obj, items, {conditions = true, any = "autogen rulecount validatingadmissionpolicy"})
  for _, item in ipairs(items) do
    local ready = common.field(item, "status", "ready")
    if ready ~= nil then
      obj.status.ready = ready
      if not ready then
        break
      end
    end
  end
  return obj
end
