-- Part of the Lua shims: the GPUs of each node that two options ask for, 0 if for none; nil for
-- what is left to the filter.
return function(per_node, gres)
  local most = 0
  for _, text in ipairs({ per_node, gres }) do
    if text ~= "" then
      local kind = text:gsub("^gres[:/]", ""):gsub("^gpu:", "")
      local other = text == gres and kind == text -- no GPU but something else
      local digits = kind:match("^(%d+)$") or kind:match("^%a[%w_]*:(%d+)$")
      if other or not digits or #digits > 5 then return nil end
      most = math.max(most, tonumber(digits))
    end
  end
  return most
end
