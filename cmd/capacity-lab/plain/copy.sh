#!/bin/sh
# What a site without configless has in its launch template: slurm.conf comes from the controller.
mkdir -p /etc/slurm
cp /home/slurm/*.conf /etc/slurm/
