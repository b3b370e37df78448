local common = require("common")

function AggregateStatus(obj, items)
  obj = common.aggregate(obj, items, {latest = "lastScheduleTime", any = "type"})
  local active = {}
  for _, item in ipairs(items) do
    for _, job in ipairs(common.field(item, "status", "active") or {}) do
      table.insert(active, job)
    end
  end
  obj.status.active = active
  return obj
end

function GetDependencies(obj)
  local templates = {}
  for _, name in ipairs({"jobTemplate", "broadcastJobTemplate"}) do
    local template = common.field(obj, "spec", "template", name, "spec", "template")
    if template ~= nil then
      table.insert(templates, template)
    end
  end
  return common.podDependencies(obj, templates)
end
