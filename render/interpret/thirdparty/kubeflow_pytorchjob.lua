local common = require("common")

local roles = {"Master", "Worker"}

local function specs(obj)
  return common.field(obj, "spec", "pytorchReplicaSpecs") or {}
end

function GetComponents(obj)
  local components = {}
  for _, role in ipairs(roles) do
    local spec = specs(obj)[role]
    if spec ~= nil then
      table.insert(components, common.component(string.lower(role), spec.replicas or 1, spec.template))
    end
  end
  return components
end

function InterpretHealth(obj)
  return common.notFailed(obj, 0)
end

function AggregateStatus(obj, items)
  return common.jobs(obj, items)
end

function GetDependencies(obj)
  local templates = {}
  for _, spec in pairs(specs(obj)) do
    if spec.template ~= nil then
      table.insert(templates, spec.template)
    end
  end
  return common.podDependencies(obj, templates)
end
