#!/bin/sh
# repository.sh DIST URL [KEY] makes DIST/repository, an apt and a yum repository of the packages in
# DIST, as a folder for a web server or a bucket. URL is where hosts will find it. KEY names the GPG
# key that signs it.
set -eu
dist=$(cd "$1" && pwd) url=${2%/} key=${3:-}
top=$dist/repository
rm -rf "$top"
mkdir -p "$top/apt/pool" "$top/yum"

# S3 takes a plus in a URL for a blank.
for file in "$dist"/*.deb; do cp "$file" "$top/apt/pool/$(basename "$file" | tr + _)"; done
for file in "$dist"/*.rpm; do cp "$file" "$top/yum/$(basename "$file" | tr + _)"; done

cd "$top/apt"
for arch in amd64 arm64; do
	packages=dists/stable/main/binary-$arch
	mkdir -p "$packages"
	apt-ftparchive --arch "$arch" packages pool >"$packages/Packages"
	gzip -9nk "$packages/Packages"
done
apt-ftparchive -o APT::FTPArchive::Release::Origin=pcs-capacity -o APT::FTPArchive::Release::Suite=stable \
	-o APT::FTPArchive::Release::Codename=stable -o APT::FTPArchive::Release::Components=main \
	-o APT::FTPArchive::Release::Architectures="amd64 arm64" release dists/stable >Release
mv Release dists/stable/

trust=trusted=yes check=0
if [ -n "$key" ]; then
	trust=signed-by=/etc/apt/keyrings/pcs-capacity.asc check=1
	gpg --batch --yes --local-user "$key" --clearsign --output dists/stable/InRelease dists/stable/Release
	gpg --batch --yes --local-user "$key" --armor --detach-sign --output dists/stable/Release.gpg dists/stable/Release
	gpg --batch --armor --export "$key" >"$top/pcs-capacity.asc"
	rpmsign --define "__gpg $(command -v gpg)" --define "_gpg_name $key" --addsign "$top"/yum/*.rpm >/dev/null
fi
createrepo_c --quiet "$top/yum"
[ -z "$key" ] || gpg --batch --yes --local-user "$key" --armor --detach-sign "$top/yum/repodata/repomd.xml"

echo "deb [$trust] $url/apt stable main" >"$top/pcs-capacity.list"
printf '[pcs-capacity]\nname=pcs-capacity\nbaseurl=%s/yum\nenabled=1\ngpgcheck=%s\nrepo_gpgcheck=%s\n' "$url" $check $check >"$top/pcs-capacity.repo"
[ -z "$key" ] || echo "gpgkey=file:///etc/pki/rpm-gpg/pcs-capacity.asc" >>"$top/pcs-capacity.repo"
echo "$top is for $url, $([ -n "$key" ] && echo "signed by $key" || echo "not signed: hosts trust whoever can write there; KEY=NAME signs it")"
